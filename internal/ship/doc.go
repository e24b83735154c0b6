// Package ship copies versions between servers and directories.
//
// It owns no state. It sends only what the receiver lacks, and the receiver verifies all of it: objects by their
// names, manifests by signatures of keys that it trusts. An interrupted copy keeps what arrived, and the next one
// continues. The command line calls it. It must never register a version before all its objects have arrived.
package ship
