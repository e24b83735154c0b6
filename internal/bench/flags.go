package bench

import (
	"flag"
	"strings"

	"pando/internal/testkit"
)

// ListOf parses a flag whose values are separated by commas.
func ListOf(out *[]string) func(string) error {
	return func(text string) error {
		*out = strings.Split(text, ",")
		return nil
	}
}

// RateOf parses the rate of a link, such as 10mbit.
func RateOf(out *testkit.Rate) func(string) error {
	return func(text string) (err error) {
		*out, err = testkit.ParseRate(text)
		return err
	}
}

// PandoWay is the name of Pando's own way in lists of ways.
const PandoWay = "pando"

// GivenFlags returns the names of the flags that were given on the command line.
func GivenFlags(f *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	return given
}

// CommandLine returns a command as a person would type it.
func CommandLine(name string, args []string) string {
	return strings.Join(append([]string{"pando-lab", name}, args...), " ")
}
