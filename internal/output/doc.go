// Package output prints tables, fields and JSON, takes from text what would steer a terminal, and formats sizes, rates,
// durations and times for people. It also parses flag values with a unit, in the same formats.
//
// It owns the formats. The commands call it, and the dashboard for what is removed from text. It must never change the
// name of a JSON field, and must print the same table whether or not the output is a terminal.
package output
