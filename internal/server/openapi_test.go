package server

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// openAPI holds the parts of an OpenAPI document that these tests use.
type openAPI struct {
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		} `json:"schemas"`
	} `json:"components"`
}

func readDescription(t *testing.T) openAPI {
	t.Helper()
	var d openAPI
	if err := json.Unmarshal(description, &d); err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	return d
}

// describedTypes returns the types of the API by the names of their schemas.
func describedTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, v := range []any{api.Error{}, api.ErrorBody{}, api.Node{}, api.NodeList{}, api.NodeCreate{}, api.NodeSet{},
		api.NodeAdopt{},
		api.Changes{}, api.Change{}, fleet.Value{}, fleet.Extension{}, api.Declaration{}, api.NodeDeclare{},
		api.Owns{}, api.Apply{}, api.Applied{}, api.ApplyStep{}, api.Group{}, api.GroupList{}, api.GroupSet{},
		api.GroupChange{}, api.Class{}, api.ClassList{}, api.ClassSet{},
		api.ClassChange{}, fleet.Match{}, api.Image{}, api.ImageList{},
		api.ImageSlim{}, api.SlimPackage{}, api.SlimUnit{}, api.ImageDiff{}, api.PackageChange{}, api.FileChange{},
		api.ImageHistory{}, api.HistoryVersion{}, api.TagMove{},
		api.StoreCollect{}, api.StoreCollected{}, api.CollectVersion{}, api.HeldVersion{}, api.WorkDir{},
		api.StoreUsage{}, api.ImageUsage{}, api.VersionUsage{},
		api.StoredVersion{}, api.VersionPut{}, api.ObjectSize{}, api.ObjectList{},
		api.Version{}, api.VersionAdd{}, api.ImageTrace{}, api.TraceBoot{},
		api.Pack{}, api.TraceStage{}, api.TraceFile{}, api.TraceAdvice{}, api.TagSet{}, fleet.Tag{}, api.TagChange{},
		api.Boot{}, api.BootList{}, api.BootDetail{},
		api.Step{}, trace.Event{}, api.EventList{}, fleet.Hardware{}, api.NodeStatus{}, api.Systemd{}, api.UnitTime{},
		api.Token{},
		api.TokenList{}, api.TokenCreate{}, api.NewToken{}, fleet.Lease{}, api.LeaseList{}, api.ScrapeTarget{},
		api.Fault{},
		api.PowerDo{}, api.PowerDone{}, api.PowerView{}, api.PowerList{}, api.PowerPassword{},
		api.DiskList{}, api.Disk{}, api.NodeCache{}, api.Keys{}, api.Key{}, api.KeyCreate{}, api.KeyUse{},
		api.KeyChange{},
		api.Journal{}, api.JournalLine{}, api.JournalBoot{}, api.StateList{}, api.StateOf{}, fleet.StatePlace{},
		fleet.KeptPath{}, fleet.StateOrder{}, fleet.StateResult{}, api.VolumeState{}, api.Snapshot{}, api.StateChange{},
		api.KeyVersion{}, api.SignatureAdd{}, api.Policy{}, api.MediumCreate{},
		api.Loader{}, api.LoaderList{}, api.DHCP{}, api.DHCPAddresses{}, api.Port{}, api.Loads{}, api.Logs{},
		api.Status{}, api.FullDisk{},
		api.Rollout{}, api.RolloutList{}, api.RolloutStart{}, fleet.RolloutPlan{}, fleet.RolloutNode{},
		api.NodeDiff{}, api.NodeDiffList{},
		api.Recording{}, api.RecordingList{}, api.RecordingSet{}, api.PastBoot{}, api.History{}, api.BootFigures{},
		api.Figures{},
		api.BootComparison{}, api.Sample{}, api.Samples{}, api.Sender{}, api.Feeding{}, api.Feedings{},
		api.ComparedBoots{}, api.BootChange{}, api.User{}, api.UserList{}, api.UserCreate{}, api.UserSet{},
		api.Audited{}, api.AuditList{},
		api.ConfigList{}, api.ConfigFile{}, api.ConfigSet{}, api.ConfigDelete{}, api.ConfigChange{}, api.NodeConfig{},
		api.RenderedFile{},
		api.SyncRequest{}, api.SyncList{}, api.NodeSync{}, api.SyncedFile{}, api.SecretList{}, fleet.Secret{},
		api.SecretSet{}, api.NodeSelection{}} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	types["GroupCreate"], types["ClassCreate"], types["ConfigDeclare"] = reflect.TypeFor[fleet.Group](),
		reflect.TypeFor[fleet.Class](), reflect.TypeFor[fleet.ConfigFile]()
	return types
}

func TestDescriptionAndTypesAgree(t *testing.T) {
	types := describedTypes()
	schemas := readDescription(t).Components.Schemas
	for name, s := range schemas {
		typ, ok := types[name]
		if !ok {
			t.Errorf("schema %s is no type of the API", name)
			continue
		}
		got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(jsonFields(typ)))
		if !slices.Equal(got, want) {
			t.Errorf("schema %s has properties\n %v\nthe type has\n %v", name, got, want)
		}
		for _, r := range s.Required {
			if _, ok := s.Properties[r]; !ok {
				t.Errorf("schema %s requires %s, which it does not have", name, r)
			}
		}
		delete(types, name)
	}
	for name := range types {
		t.Errorf("type %s is not described", name)
	}
	for _, r := range references(t) {
		if _, ok := schemas[strings.TrimPrefix(r, "#/components/schemas/")]; !ok {
			t.Errorf("reference %s points at nothing", r)
		}
	}
}

// jsonFields returns the JSON names of a type's fields, including those of embedded structs.
func jsonFields(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			maps.Copy(out, jsonFields(f.Type))
		default:
			out[name] = true
		}
	}
	return out
}

// references returns all "$ref" of the description.
func references(t *testing.T) []string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(description, &doc); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if r, ok := v["$ref"].(string); ok {
				out = append(out, r)
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc)
	return out
}
