// Package steps has the word in which a long job tells how far it is, such as the build of an image.
//
// Whoever does a step reports what is done of how much, and the pipeline that called it adds the name of the step; the
// reader computes rates and the time left. The rooms of build and workdir report, the command line shows it.
// It owns no state, and it must never decide anything.
package steps

// Progress says how far a step is. The reader computes rates and the time left.
type Progress struct {
	Step  string // of the build; whoever does the step leaves it out, and the pipeline sets it
	Done  int64  // in Unit
	Total int64  // in Unit; 0: unknown
	Unit  string // "bytes", "files" or "" if only Note says something
	Note  string // one line of what is being done, such as a line of the installer's output
}
