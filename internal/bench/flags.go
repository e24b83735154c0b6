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

// PandoWay is Pando's name in lists of ways to do something.
const PandoWay = "pando"

// GivenFlags are the names of those that were given, and not left at what they are by themselves.
func GivenFlags(f *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	return given
}

// CommandLine is a command as it can be given again.
func CommandLine(name string, args []string) string {
	return strings.Join(append([]string{"pando-lab", name}, args...), " ")
}
