// Package power switches nodes on and off: for operators, by timetables, and after a power cut.
//
// It owns what is being switched now; wishes, passwords (sealed) and times of timetables are in the registry. Operators
// call its routes, and it runs by itself. It must never switch on a node that somebody wants off, nor show a password.
package power
