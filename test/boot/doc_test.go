// Package boot boots real, emulated machines with the programs as they are built, from power-on to a shell over ssh. It
// verifies what the packages' own tests assume.
//
// The images (Debian 12 and 13 by the built-in recipes) are built once into build/test, and again after a change of the
// code that builds them. Each test has its own server, data directory and network; the store's objects are hard links.
// Tests run in parallel, limited by the number of machines that may boot at a time: one per processor.
//
// PANDO_BOOT=1 enables them, as `make test` does; PANDO_FULL=1 adds the long ones. A failed test leaves its consoles
// and logs in build/test/run.
package boot
