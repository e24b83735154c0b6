// Package bench has what all rooms of the lab share: programs that are started and ended, processor time and memory of
// processes and of the machine, tables and result files, and trees that are installed to be measured.
//
// It owns no measurement. Rooms of the lab call it. It must never decide what is measured, and never be part of a
// program that is shipped.
package bench
