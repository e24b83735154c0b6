// Package rootdir writes files into a root file system from outside, with every path resolved as if it were the root
// already, and has the small files that Pando puts there.
//
// It owns nothing. Init writes config files, the agent brings them in step. It must not follow a link out of the root.
package rootdir
