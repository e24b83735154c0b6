// Package fleetfile reads and writes what people declare of a fleet: fleet files in YAML, and tables of machines in
// CSV or YAML. It converts each to and from an api.Declaration.
//
// It owns the two formats. The command line calls it for apply, export and node import. It must never open a file or
// call a server.
//
// A fleet file declares policy, classes, groups, nodes, config files and the names of secrets. Its key `owns` lists
// the kinds that `apply --prune` may delete when the file does not name them. A table has a row for each node and
// declares only its columns. Errors name the line.
package fleetfile
