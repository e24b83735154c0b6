// Package loader has the command `loader`: which builds of iPXE machines are sent, and builds that the site imports.
//
// It calls the HTTP API and reads the file of an import. The package cli adds the command to the tree. It must never
// decide whether a file is a boot loader: the server does.
package loader
