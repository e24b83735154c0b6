// Package bench has what the rooms of the lab share: starting and ending programs, the processor time and memory of
// processes and of the machine, tables and result files, and directory trees to measure with.
//
// It owns no measurement. The rooms of the lab call it. It must never decide what is measured, and never be part of a
// program that is shipped.
package bench
