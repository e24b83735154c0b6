package fleetfile

import (
	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
)

// secret reads the scopes of a secret. A fleet file never has its value, because such files are stored and passed on.
func (f *fileReader) secret(name string, n *yaml.Node) error {
	s := fleet.Secret{Name: name, For: []fleet.Scope{}}
	f.fields(n, "secret "+name, map[string]func(*yaml.Node){
		"for": func(n *yaml.Node) {
			for _, text := range f.words(n) {
				scope, err := fleet.ParseScope(text)
				if err != nil {
					f.add(n.Line, "", "secret %s: %v", name, err)
				}
				s.For = append(s.For, scope)
			}
		},
		"value": func(n *yaml.Node) {
			f.add(
				n.Line,
				"",
				"secret %s: a fleet file has no values of secrets: take it out, and give it by `pando secret set "+
					"%s --from FILE`",
				name,
				name,
			)
		},
	})
	f.out.Secrets = append(f.out.Secrets, s)
	return s.Validate()
}

// secretTexts converts secrets to their form in a fleet file.
func secretTexts(secrets []fleet.Secret) map[string]secretText {
	out := map[string]secretText{}
	for _, s := range secrets {
		t := secretText{For: []string{}}
		for _, scope := range s.For {
			t.For = append(t.For, scope.String())
		}
		out[s.Name] = t
	}
	return out
}
