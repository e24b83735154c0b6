// Package power switches nodes on and off: for operators, by timetables, and after a power cut.
//
// It owns the actions that are running; what operators requested, sealed passwords and the times of timetables are in
// the registry. Operators call its routes, and it runs by itself. It must never switch on a node that an operator
// wants off, and never show a password.
package power
