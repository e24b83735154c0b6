package dhcpload

import (
	"io"
	"testing"
)

// output is what perfdhcp 2.2 printed.
const output = `Running: perfdhcp -4 -l perf0 -r 500
***Rate statistics***
Rate: 466.3 4-way exchanges/second, expected rate: 500

***Statistics for: DISCOVER-OFFER***
sent packets: 4990
received packets: 4651
drops: 339
drops ratio: 6.79359 %
orphans: 0
rejected leases: 0
non unique addresses: 0

min delay: 400.871 ms
avg delay: 402.113 ms
max delay: 409.5 ms
std deviation: 1.2 ms
collected packets: 0

***Statistics for: REQUEST-ACK***
sent packets: 4651
received packets: 4651
drops: 0
drops ratio: 0 %

min delay: 1.2 ms
avg delay: 3.5 ms
max delay: 21 ms
`

func TestParse(t *testing.T) {
	offers, err := parse(output, "DISCOVER-OFFER")
	if want := (exchange{4990, 339, 402.113, 409.5}); err != nil || offers != want {
		t.Errorf("%+v, %v; want %+v", offers, err, want)
	}
	acks, err := parse(output, "REQUEST-ACK")
	if want := (exchange{4651, 0, 3.5, 21}); err != nil || acks != want {
		t.Errorf("%+v, %v; want %+v", acks, err, want)
	}
	if _, err := parse("no such option", "REQUEST-ACK"); err == nil {
		t.Error("an error message has figures")
	}
	row := rowsOf([]run{{"pando", 500, offers, acks}})[0]
	if row[2] != "339 of 4990 = 6.8 %" || row[3] != "402, 410 ms" {
		t.Errorf("%q", row)
	}
}

func TestArguments(t *testing.T) {
	if l, err := New([]string{"--rates", "100,2000", "--systems", "kea"}, io.Discard, io.Discard); err != nil ||
		len(l.rates) != 2 || len(l.systems) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range [][]string{{"--rates", "fast"}, {"--rates", "0"}, {"--systems", "isc"}, {"--clients", "0"},
		{"--clients", "20000"}, {"--seconds", "0"}, {"more"}} {
		if _, err := New(bad, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
