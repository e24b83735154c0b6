// Package house has the rules of the repository as tests: which package may import which, what is documented, how long
// a file and a function may be, and what the node's program consists of. A rule that matters needs a test here.
//
// Exceptions are listed beside the rule with their reason. Rewrite the golden files with
//
//	go test ./test/house -update
package house
