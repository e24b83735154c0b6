// Package rootdir writes files into a root file system from outside, and resolves every path as if that were the root
// already. It also has the small files that Pando puts there.
//
// It owns no state. Init writes config files with it, and the agent updates them. It must not follow a link out of the
// root.
package rootdir
