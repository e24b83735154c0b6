// Package steps has the type by which a long job, such as the build of an image, reports its progress.
//
// A step reports what part of it is done, and the pipeline adds the name of the step. The reader computes rates and the
// time left. The rooms of build and workdir report; the command line shows it. It owns no state, and must never decide
// anything.
package steps
