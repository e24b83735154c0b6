// Package loaderkit makes files that look like builds of iPXE, for tests of code that takes or sends boot loaders.
//
// It owns no state. Only tests use it: those of netboot, bootloader, hostcheck, the server and the commands. It must
// never make a file that a machine could start.
package loaderkit
