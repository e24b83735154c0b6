package hostcheck

import "flag"

var update = flag.Bool("update", false, "rewrite the golden files")
