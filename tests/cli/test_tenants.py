"""`lessor tenant`: credentials for others, while `lessor up` runs."""

from pathlib import Path

from tests.cli.programs import Place


def test_another_tenant_works_with_its_file_alone_until_it_is_removed(town: Place, tmp_path: Path) -> None:
    added = town.run("tenant", "add", "acme", "--principal", "ann", "--json")
    assert added.code == 0, added.err
    file = Path(added.json["credentials"])
    url = f"nats://{town.broker()['listen']}"
    foreign = Place(tmp_path / "elsewhere")
    entered = {"LESSOR_URL": url, "LESSOR_CREDENTIALS": str(file)}

    made = foreign.run("profile", "create", "shop", "--origin", "https://shop.example", "--json", **entered)
    assert (made.code, made.json["principal"]) == (0, "ann"), made.err
    assert foreign.run("profile", "list", "--json", **entered).json["profiles"] == ["shop"]
    assert "shop" not in town.run("profile", "list", "--json").json["profiles"]
    overview = foreign.run("status", "--json", **entered).json
    assert (overview["hosts"], overview["profiles"][0]["profile"]) == (None, "shop")
    assert town.run("status", "--json").json["hosts"]

    listed = town.run("tenant", "list", "--json").json["tenants"]
    assert [(one["tenant"], one["principal"]) for one in listed] == [("acme", "ann"), ("local", "me")]
    gone = town.run("tenant", "remove", "acme")
    assert (gone.code, gone.out) == (0, "removed acme/ann\n")
    late = foreign.run("profile", "list", **entered)
    assert late.code == 21
    assert str(file) in late.err


def test_removed_credentials_that_somebody_kept_are_forbidden(town: Place, tmp_path: Path) -> None:
    file = Path(town.run("tenant", "add", "acme", "--json").json["credentials"])
    kept = tmp_path / "kept.nk"
    kept.write_text(file.read_text())
    assert town.run("tenant", "remove", "acme", "--principal", "me").code == 0
    late = Place(tmp_path / "data").run(
        "profile", "list", LESSOR_URL=f"nats://{town.broker()['listen']}", LESSOR_CREDENTIALS=str(kept)
    )
    assert late.code == 20, late.err
    assert "forbidden" in late.err


def test_whom_the_directory_does_not_know_is_told_how_to_become_known(town: Place) -> None:
    told = town.run("profile", "list", LESSOR_TENANT="acme", LESSOR_PRINCIPAL="eve")
    assert told.code == 20
    assert "lessor tenant add acme --principal eve" in told.err
    assert town.run("profile", "list", LESSOR_TENANT="../..").code == 10


def test_for_another_broker_the_operators_part_is_printed_and_holds_no_secret(place: Place) -> None:
    done = place.run("tenant", "add", "acme", "--print")
    assert done.code == 0, done.err
    seed = (place.data_dir / "credentials" / "acme.me.nk").read_text().splitlines()[-1]
    assert seed.startswith("SU")
    assert seed not in done.out + done.err
    assert '"lessor.v1.acme.me.>"' in done.out
    assert place.run("tenant", "list").code == 21
