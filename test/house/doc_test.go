// Package house holds the rules that the repository keeps, as tests: who may import whom, what is documented, how long
// a file and a function may be, what the node's program is made of and how big it is. A rule that matters and has
// no test here is a wish.
//
// Exceptions stand beside the rule with their reason. Rewrite the golden files with
//
//	go test ./test/house -update
package house
