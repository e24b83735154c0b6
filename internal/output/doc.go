// Package output prints tables, fields and JSON, removes from text what would control a terminal, and formats sizes,
// rates, durations and times for people. It also parses flag values with a unit, in the same formats.
//
// It owns the formats. The commands call it; the dashboard uses its cleaning of text. It must never change the name of
// a JSON field, and must print the same table whether or not the output is a terminal.
package output
