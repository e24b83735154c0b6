// Package fleetfile reads and writes what people declare of a fleet: fleet files in YAML, and tables of a room's
// machines in CSV or YAML. It is pure: text in, an api.Declaration out, and back.
//
// The words. A fleet file names policy, classes, groups and nodes, and says with owns what it is the whole truth
// about. A table has a row for each node and says of it only what its columns are. An item is one thing that is
// declared, "node pc001"; what is wrong with an item is told with its line.
package fleetfile
