// Package boot boots real, emulated machines by the programs as they are built, from the power button to a shell over
// ssh. It is the proof of what the parts' own tests promise.
//
// The images (Debian 12 and 13 by the built-in recipes) are built once into build/test and used again as long as the
// code that builds them is the same. Each test has a server, a data directory and a network of its own, with the
// store's objects as hard links. Tests run side by side; what bounds them is the number of machines that may boot at a
// time, one for each processor.
//
// PANDO_BOOT=1 turns them on, as `make test` does; PANDO_FULL=1 adds those that `make test` has no time for. A
// failed test leaves its consoles and logs in build/test/run.
package boot
