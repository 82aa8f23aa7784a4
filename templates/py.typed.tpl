@{once python/{package}/py.typed}
