package bench

import (
	"pando/internal/testkit"
	"strings"
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
