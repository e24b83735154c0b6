// Package bootloader has the builds of iPXE that machines are sent: those of packages, and those that a site imported.
//
// It owns the directory of imported builds, and which build each class of firmware gets. The server's rooms send and
// list them; the doctor looks at them. It must never import a file that is not a build of iPXE.
package bootloader
