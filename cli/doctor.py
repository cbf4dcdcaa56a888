def doctor() -> None:
    """later"""
