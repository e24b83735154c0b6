// Package steps has the type in which a long job, such as the build of an image, reports its progress.
//
// A step reports how much is done of how much, and the pipeline adds the name of the step. The reader computes rates
// and the time left. The rooms of build and workdir report; the command line shows it. It owns no state, and must
// never decide anything.
package steps

// Progress says how far a step is. The reader computes rates and the time left.
type Progress struct {
	Step  string // of the build; whoever does the step leaves it out, and the pipeline sets it
	Done  int64  // in Unit
	Total int64  // in Unit; 0: unknown
	Unit  string // "bytes", "files" or "" if only Note says something
	Note  string // one line of what is being done, such as a line of the installer's output
	Held  bool   // a program has the terminal until the next piece of progress: nothing is drawn meanwhile
}
