// Package output prints tables, fields and JSON, and writes sizes, rates, durations and times for people.
//
// It also has the flag values with a unit, which read what it writes. The commands call it. It must never change
// the name of a JSON field, nor the text of a table by where it is printed.
package output
