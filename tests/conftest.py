"""What every test gets."""

import pytest

pytest.register_assert_rewrite("tests.support")
