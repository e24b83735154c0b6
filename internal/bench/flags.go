package bench

import (
	"pando/internal/testkit"
	"strings"
)

// ListOf takes a flag with commas.
func ListOf(out *[]string) func(string) error {
	return func(text string) error {
		*out = strings.Split(text, ",")
		return nil
	}
}

// RateOf takes the rate of a link, such as 10mbit.
func RateOf(out *testkit.Rate) func(string) error {
	return func(text string) (err error) {
		*out, err = testkit.ParseRate(text)
		return err
	}
}

// PandoWay is what Pando is called among ways to do something.
const PandoWay = "pando"
