// Package fleetfile reads and writes what people declare of a fleet: fleet files in YAML, and tables of machines in
// CSV or YAML. It owns the two formats; an api.Declaration is what it makes of a text, and what it makes a text of.
// The CLI calls it for apply, export and node import. It opens no file and asks no server.
//
// A fleet file declares policy, classes, groups, nodes, config files and secrets' names; with owns it says of what it
// is the whole truth. A table has a row for each node and declares only its columns. Errors name the line.
package fleetfile
