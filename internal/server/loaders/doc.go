// Package loaders is the operator's API for boot loaders: which builds of iPXE machines are sent, and builds that the
// site imports.
//
// It owns no state: builds are in package bootloader. The server's wiring registers its routes. It must never let
// anybody but an admin change what machines start with.
package loaders
