// Package courier copies a node's state to the server, and fetches another node's state from there, as a tar archive.
//
// It owns one copy while it runs. Scripts of the node's state run it as `pando-init state-send` and `state-fetch`. It
// must not let an incomplete copy be taken for a whole one.
package courier
