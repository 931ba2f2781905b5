//go:build e2e

package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"

	"huolala.cn/app-operator/test/harness"
)

// work is a folder that git ignores: what is made for the test.
const work = "dist/e2e"

// published is the name under which the tree's own bundle and catalog know the images.
const published = "quay.io/app-operator/app-operator"

// previous is the version that is upgraded. It is made for the test, as an earlier release need not be in E2E_REGISTRY.
const previous = "v0.1.0"

// versions are the latest version, and the one before it.
func versions(t testing.TB) (older, latest string) {
	t.Helper()
	b, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return previous, "v" + b.CSV.Spec.Version.String()
}

// images builds and pushes all images: of two versions the operator and the bundle, the catalog of both, the scorecard.
func images(t *testing.T) {
	older, latest := versions(t)
	if err := os.RemoveAll(filepath.Join(root, work)); err != nil {
		t.Fatal(err)
	}
	command(t, "make", "docker-build", "IMG="+image(":"+latest))
	manager(t, older, image(":"+latest))
	nextRendering := filepath.Join(root, work, "_rendering") // The go command leaves such a folder out of ./...
	if err := os.MkdirAll(nextRendering, 0o755); err != nil {
		t.Fatal(err)
	}
	overlay, err := harness.WriteNextRendering(nextRendering)
	if err != nil {
		t.Fatal(err)
	}
	manager(t, latest, image(":"+latest), "-overlay", overlay)
	// As they are released: each image by its digest.
	for _, version := range []string{older, latest} {
		out := filepath.Join(work, version)
		command(t, "make", "bundle", "OUT="+out, "VERSION="+version[1:], "IMG="+image(":"+version), "USE_IMAGE_DIGESTS=true")
		relocate(t, out)
		command(t, "make", "bundle-build", "bundle-push", "OUT="+out, "BUNDLE_IMG="+image("-bundle:"+version))
	}
	catalog(t, older, latest)
	command(t, "make", "scorecard-build", "scorecard-push", "SCORECARD_IMG="+image("-scorecard:v1"))
}

// manager makes and pushes the image of a version, from an image of this tree: the two versions are builds of one tree that differ in
// their names and, by the flags of the go command, in a rendering that exists for the test alone.
func manager(t testing.TB, version, from string, flags ...string) {
	t.Helper()
	dir := filepath.Join(work, "manager-"+version)
	write(t, dir+"/Dockerfile", "FROM "+from+"\nCOPY manager /manager\n")
	goBuild := append([]string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + runtime.GOARCH, "go", "build", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version=" + version, "-o", dir + "/manager"}, flags...)
	command(t, "env", append(goBuild, ".")...)
	build := append([]string{"build"}, strings.Fields(os.Getenv("BUILD_FLAGS"))...)
	build = append(build, "-t", image(":"+version), "-f", dir+"/Dockerfile", dir)
	command(t, containerTool(), build...)
	command(t, "make", "docker-push", "IMG="+image(":"+version))
}

// containerTool builds and pushes images.
func containerTool() string { return cmp.Or(os.Getenv("CONTAINER_TOOL"), "docker") }

// pinned is the manager's image of a version by its digest: by the tag, a node that has run the test before would go on
// with what it pulled then.
func pinned(t testing.TB, version string) string {
	t.Helper()
	return image("@" + strings.TrimSpace(command(t, "bin/crane", "digest", image(":"+version))))
}

// relocate moves the images that a bundle names by our published name to the registry.
func relocate(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		write(t, file, replaced(t, file, published, image("")))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// catalog makes the catalog of the pushed bundles and moves the tag that clusters follow, as a release does.
func catalog(t testing.TB, older, latest string) {
	t.Helper()
	dir := filepath.Join(work, "catalog")
	const first = "  bundles:\n"
	write(t, dir+"/semver.yaml", replaced(t, "catalog/semver.yaml", first, first+"  - image: "+image("-bundle:"+older)+"\n"))
	command(t, "make", "catalog", "catalog-build", "catalog-push", "catalog-follow", "OUT="+dir, "CATALOG_TEMPLATE="+dir+"/semver.yaml",
		"CATALOG_FROM=registry", "IMAGE_TAG_BASE="+image(""), "CATALOG_IMG="+image("-catalog:"+latest))
}
