package definitions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCatalogNamesBundlesByDigest checks that the catalog of pushed bundles has the digest of each, and that a bundle that is not pushed is an error.
func TestCatalogNamesBundlesByDigest(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "hack/catalog.sh"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(template string) (string, error) {
		dir := folder(t, map[string]string{
			"hack/catalog.sh": string(script), "catalog/semver.yaml": template, "catalog.Dockerfile": "FROM scratch\n",
			"bin/opm":   "#!/bin/sh\n[ $1 = validate ] || cat $4\n",
			"bin/crane": "#!/bin/sh\ncase $2 in *:v1.*) echo sha256:${2##*.};; *) echo \"$2: MANIFEST_UNKNOWN\" >&2; exit 1;; esac\n",
		})
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack/catalog.sh"))
		cmd.Env = append(withoutMake(), "BUNDLE_REPOSITORY=registry.example:5000/op-bundle", "CATALOG_TEMPLATE=catalog/semver.yaml", "CATALOG_FROM=registry",
			"OUT="+filepath.Join(dir, "dist"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return string(out), err
		}
		rendered, err := os.ReadFile(filepath.Join(dir, "dist/app-operator/catalog.yaml"))
		return string(rendered), err
	}
	const template = "candidate:\n  bundles:\n  - image: other/op-bundle:v1.0.1\n  - image: other/op-bundle:v1.0.10\nstable:\n  bundles:\n  - image: other/op-bundle:v1.0.1\n"
	const want = "candidate:\n  bundles:\n  - image: registry.example:5000/op-bundle@sha256:1\n  - image: registry.example:5000/op-bundle@sha256:10\n" +
		"stable:\n  bundles:\n  - image: registry.example:5000/op-bundle@sha256:1\n"
	got, err := run(template)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if out, err := run(template + "  - image: other/op-bundle:v2.0.0\n"); err == nil || !strings.Contains(out, "op-bundle:v2.0.0: MANIFEST_UNKNOWN") {
		t.Errorf("a bundle that is not pushed: %v:\n%s", err, out)
	}
}

// TestCatalogFollow checks that the tag that clusters follow is moved only to a catalog that has an upgrade for each version that the present one has.
func TestCatalogFollow(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "hack/catalog-follow.sh"))
	if err != nil {
		t.Fatal(err)
	}
	const crane = `#!/bin/sh
case $1,$2 in
tag,*) echo "moves $2 $3";;
export,*:none) echo MANIFEST_UNKNOWN >&2; exit 1;;
export,*:away) echo 502 >&2; exit 1;;
export,*) mkdir -p configs/app-operator && cp ${2##*:}.yaml configs/app-operator/catalog.yaml && tar -cf $3 configs;;
esac
`
	const head = "---\ndefaultChannel: stable-v0\nname: app-operator\nschema: olm.package\n"
	entries := func(channel, list string) string {
		return "---\nentries:\n" + list + "name: " + channel + "\npackage: app-operator\nschema: olm.channel\n"
	}
	const first, broken = "- name: app-operator.v0.2.0\n", "- name: app-operator.v0.2.1\n  replaces: app-operator.v0.2.0\n"
	const bundles = "---\nname: app-operator.v0.2.1\nproperties:\n- name: app-operator.v0.2.1\nschema: olm.bundle\n"
	dir := folder(t, map[string]string{
		"hack/catalog-follow.sh": string(script), "bin/crane": crane,
		"first.yaml":     head + entries("candidate-v0", first) + entries("stable-v0", first) + bundles,
		"broken.yaml":    head + entries("candidate-v0", first+broken) + entries("stable-v0", first+broken) + bundles,
		"withdrawn.yaml": head + entries("candidate-v0", first+broken) + entries("stable-v0", first) + bundles,
		"replaced.yaml":  head + entries("candidate-v0", "- name: app-operator.v0.2.2\n  replaces: app-operator.v0.2.1\n"+first) + entries("stable-v0", "- name: app-operator.v0.2.2\n  replaces: app-operator.v0.2.1\n"+first) + bundles,
		"skipped.yaml": head + entries("candidate-v0", "- name: app-operator.v0.2.2\n  skips:\n  - app-operator.v0.2.1\n  - app-operator.v0.2.0\n") +
			entries("stable-v0", "- name: app-operator.v0.2.2\n  skips:\n  - app-operator.v0.2.1\n  - app-operator.v0.2.0\n") + bundles,
		"empty.yaml": head,
	})
	for _, c := range []struct{ old, made, leave, refused string }{
		{old: "none", made: "first"},
		{old: "first", made: "first"},
		{old: "first", made: "broken"},
		{old: "broken", made: "withdrawn", refused: "  stable-v0 app-operator.v0.2.1\n"},
		{old: "broken", made: "withdrawn", leave: "0.2.1"},
		{old: "broken", made: "first", leave: "0.2.0", refused: "  candidate-v0 app-operator.v0.2.1\n  stable-v0 app-operator.v0.2.1\n"},
		{old: "broken", made: "replaced"},
		{old: "broken", made: "skipped"},
		{old: "first", made: "empty", refused: "has no channel"},
		{old: "away", made: "first", refused: "registry.example:5000/op-catalog:away was not read: 502"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack/catalog-follow.sh"))
		cmd.Env = append(withoutMake(), "NEW=registry.example:5000/op-catalog:"+c.made, "FOLLOWED=registry.example:5000/op-catalog:"+c.old, "LEAVE="+c.leave)
		out, err := cmd.CombinedOutput()
		moved := string(out) == "moves registry.example:5000/op-catalog:"+c.made+" "+c.old+"\n"
		if c.refused == "" && (err != nil || !moved) || c.refused != "" && (err == nil || moved || !strings.Contains(string(out), c.refused)) {
			t.Errorf("%+v: %v:\n%s", c, err, out)
		}
	}
}
