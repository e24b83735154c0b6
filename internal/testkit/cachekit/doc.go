// Package cachekit makes a cache on a disk, for tests of code that reads or writes one.
//
// It owns no state. Only tests use it: those of node/blockd, node/initrd and lastboot. It must never become a part of
// nodekit, which packages below the cache use.
package cachekit
