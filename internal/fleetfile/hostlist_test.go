package fleetfile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pando/internal/fleet"
)

// declared returns what a table declares, one line for each node.
func declared(f File) string {
	var b strings.Builder
	for _, n := range f.Nodes {
		fmt.Fprintf(&b, "%s %v %s %s %v\n", n.Name, n.MACs, n.Group, n.Address, n.Only)
	}
	return b.String()
}

// TestTableOfOtherServers: host lists of other servers are imported unchanged.
func TestTableOfOtherServers(t *testing.T) {
	const both = "pc001 [52:54:00:aa:00:01]  10.0.0.11 [name macs address]\n" +
		"pc002 [52:54:00:aa:00:02 52:54:00:aa:00:03]   [name macs]\n"
	for name, c := range map[string]struct{ text, want string }{
		"ethers": {"# room 1\n52:54:0:aa:0:1 PC001\n\n52:54:00:AA:00:02\tpc002 # spare\n",
			"pc001 [52:54:00:aa:00:01]   [name macs]\npc002 [52:54:00:aa:00:02]   [name macs]\n"},
		"dnsmasq": {"interface=eth0\ndhcp-range=10.0.0.100,10.0.0.200\n" +
			"dhcp-host=52:54:00:aa:00:01,set:lab,10.0.0.11,pc001,infinite\n# dhcp-host=52:54:00:aa:00:09,pc009\n" +
			"dhcp-host=52:54:00:aa:00:02, 52:54:00:aa:00:03, id:*, pc002, 12h\n" +
			"dhcp-host=52:54:00:aa:00:07,ignore\n", both},
		"dhcp-hostsfile": {"52:54:00:aa:00:01,10.0.0.11,pc001\n52:54:00:aa:00:02,pc002\n52:54:00:aa:00:03,pc002\n", both},
		"ISC": {`option domain-name "lab"; subnet 10.0.0.0 netmask 255.255.255.0 { range 10.0.0.100 10.0.0.200; }
group { next-server 10.0.0.1;
  host pc001 { hardware ethernet 52:54:00:AA:00:01; fixed-address 10.0.0.11; }
  host pc002-a {
    hardware ethernet 52:54:00:aa:00:02; # the first
    option host-name "pc002";
    if known { filename "x"; }
  }
  # host pc009 { hardware ethernet 52:54:00:aa:00:09; }
  host pc002-b { hardware ethernet 52:54:00:aa:00:03; option host-name "pc002"; fixed-address pc002.lab; }
}
`, both},
	} {
		f, err := ParseTable("hosts", []byte(c.text))
		if err != nil || declared(f) != c.want {
			t.Errorf("%s: %v, got\n%swant\n%s", name, err, declared(f), c.want)
		}
	}
	for text, want := range map[string]string{
		"52:54:00:aa:00:01 10.0.0.1\n":                       "hosts:1: it has the address 10.0.0.1 and no name",
		"52:54:00:aa:00:01 pc001 x\n":                        "hosts:1: want a MAC address and a name",
		"dhcp-host=52:54:00:*:*:*,pc001\n":                   "hosts:1: column mac",
		"\ndhcp-host=52:54:00:aa:00:01,10.0.0.11\n":          "hosts:2: the host has no name",
		"host pc001 { fixed-address 10.0.0.1; }":             "no host with a hardware address",
		"host pc_1 { hardware ethernet 52:54:00:aa:00:01; }": "hosts:1: column name: node name \"pc_1\"",
	} {
		if _, err := ParseTable("hosts", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestTableOfExcel: files of spreadsheets are read, or give an error with a position and a hint.
func TestTableOfExcel(t *testing.T) {
	const table = "name;mac;label:seat\r\nPC001;5254-00aa-0005;Tür\r\nPC002;5254.00aa.0006;2\r\n"
	words := utf16.Encode([]rune(table))
	var little, big []byte
	for _, w := range words {
		little, big = binary.LittleEndian.AppendUint16(little, w), binary.BigEndian.AppendUint16(big, w)
	}
	for name, text := range map[string]string{
		"UTF-8": table, "UTF-8 with a mark": "\ufeff" + table, "UTF-16": "\xff\xfe" + string(little),
		"UTF-16, big": "\xfe\xff" + string(big),
	} {
		f, err := ParseTable("room.csv", []byte(text))
		if err != nil || len(f.Nodes) != 2 || f.Nodes[0].Labels["seat"] != "Tür" ||
			f.Nodes[0].MACs[0].String() != "52:54:00:aa:00:05" || f.Nodes[1].Name != "pc002" ||
			f.Note != "names are written in lower case: PC001 in line 2 is pc001" {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
	}
	cp1252 := strings.ReplaceAll(table, "ü", "\xfc")
	for text, want := range map[string]string{
		cp1252:                         "room.csv:2: column 23: the byte 0xfc is not UTF-8: save the table as \"CSV",
		string(little):                 "room.csv:1: column 2: it is no text",
		"PK\x03\x04...xl/workbook.xml": "it is a workbook (.xlsx",
		"\xd0\xcf\x11\xe0\xa1\xb1":     "old Excel (.xls)",
	} {
		if _, err := ParseTable("room.csv", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, err := Parse("room.csv", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("as a fleet file: %v, want %q", err, want)
		}
	}
	f, err := ParseTable("room.yaml", []byte("- {name: PC001, mac: 525400aa0005, group: Lab}\n"))
	if err != nil || f.Nodes[0].Name != "pc001" || f.Nodes[0].Group != "lab" || f.Note == "" {
		t.Errorf("YAML: %v, %+v", err, f)
	}
}

// TestSeparatorLineOfExcel: the first line "sep=;" names the separator, and lines keep their numbers.
func TestSeparatorLineOfExcel(t *testing.T) {
	for _, first := range []string{"sep=;\r\n", "\"sep=;\"\n", "SEP=;\n"} {
		f, err := ParseTable("pcs.csv", []byte(first+"name;labels\npc001;rack=1,row=2\n"))
		if err != nil || len(f.Nodes) != 1 || f.Nodes[0].Labels["row"] != "2" || f.Lines["node pc001"] != 3 {
			t.Errorf("%q: %+v, %v", first, f, err)
		}
	}
	if f, err := ParseTable("pcs.csv", []byte("sep=\t\nname\tserial\npc001\tCZC12;34\n")); err != nil ||
		f.Nodes[0].Serial != "CZC12;34" {
		t.Errorf("a tab: %+v, %v", f, err)
	}
}

// TestMACWithBlanks: a cell may have blanks between the bytes of a MAC, and between MACs.
func TestMACWithBlanks(t *testing.T) {
	a, b := fleet.MAC{0x52, 0x54, 0, 0xaa, 0, 5}, fleet.MAC{0x52, 0x54, 0, 0xaa, 0, 6}
	for cell, want := range map[string][]fleet.MAC{
		"52 54 00 aa 00 05":                    {a},
		" 52  54 00 aa 00 05 ":                 {a},
		"5254 00aa 0005":                       {a},
		"52 54 00 aa 00 05; 52 54 00 aa 00 06": {a, b},
		"52:54:00:aa:00:05 52:54:00:aa:00:06":  {a, b},
		"\"52:54:00:aa:00:05,5254-00aa-0006\"": {a, b},
		"525400aa0005 525400aa0006":            {a, b},
	} {
		f, err := ParseTable("pcs.csv", []byte("name,mac\npc001,"+cell+"\n"))
		if err != nil || !slices.Equal(f.Nodes[0].MACs, want) {
			t.Errorf("%q: %v, %v", cell, f.Nodes, err)
		}
	}
}

// TestUpperCaseInAFleetFile: names in upper case are one error, which says what to write.
func TestUpperCaseInAFleetFile(t *testing.T) {
	text := "groups:\n  LAB: {}\nnodes:\n"
	for i := range 30 {
		text += fmt.Sprintf("  PC%03d: {group: LAB}\n", i+1)
	}
	_, err := Parse("fleet.yaml", []byte(text))
	want := "fleet.yaml:2: names are written in lower case: write lab for LAB, and so on for 60 more"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = Parse("fleet.yaml", []byte("nodes:\n  PC001: {group: lab, mac: here}\n"))
	if err == nil || !strings.Contains(err.Error(), "write pc001 for PC001") || !strings.Contains(err.Error(), "MAC") {
		t.Errorf("with another mistake: %v", err)
	}
}
