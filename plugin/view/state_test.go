package view

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestStates checks the state and the group for each reason of the API, as the reason of a condition Ready that is not True: a user has to act
// unless the table names another state, or the reason is a rollout.
func TestStates(t *testing.T) {
	for _, reason := range reasons(t) {
		want, known := reasonStates[reason]
		switch {
		case known:
		case reason == appv1.ReasonProgressing:
			want = StateRolling
		default:
			want = StateFailing
		}
		r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionFalse, reason, "m"))
		if got := r.State(); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
		if group := r.State().Group(); (group == GroupNeedsYou) != (want == StateFailing) {
			t.Errorf("%s: the group is %s", reason, group)
		}
	}
	for _, state := range States {
		if state.Group().Words() == "" || state.Sign() == "" {
			t.Errorf("%s has the group %q and the sign %q", state, state.Group(), state.Sign())
		}
	}
	if len(States) != len(appearances) {
		t.Errorf("%d states, %d appearances", len(States), len(appearances))
	}
}

// TestWaiting has a resource that is Progressing with all pods of its spec ready: it waits, and nothing rolls.
func TestWaiting(t *testing.T) {
	r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonProgressing, "Service cart is waiting for a load balancer address"))
	for pods, want := range map[PodCount]State{
		{Ready: 2, Wanted: 2, Updated: 2, Existing: 2}: StateWaiting, {Ready: 2, Wanted: 2, Updated: 1, Existing: 3}: StateRolling,
		{Ready: 2, Wanted: 2, Updated: 2, Existing: 3}: StateRolling, {Ready: 1, Wanted: 3, Tiers: true}: StateRolling,
	} {
		r.Pods = pods
		if got := r.State(); got != want {
			t.Errorf("%+v: %s, want %s", pods, got, want)
		}
	}
}

// TestVersions checks how images are named for a person.
func TestVersions(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, want := range map[string][2]string{
		"nginx": {"nginx", "nginx"}, "nginx:1.27": {"1.27", "nginx:1.27"}, "registry.example.com:5000/shop/cart": {"cart", "cart"},
		"registry.example.com:5000/shop/cart:2": {"2", "cart:2"}, "registry/cart:2" + digest: {"2", "cart:2"},
		"registry/cart" + digest: {"@0123456789ab", "cart@0123456789ab"}, "": {"", ""}, "cart@": {"cart", "cart"},
	} {
		if version, short := VersionOf(image), ShortImage(image); version != want[0] || short != want[1] {
			t.Errorf("%q: %q and %q, want %q", image, version, short, want)
		}
	}
	if from, to := DifferingVersions("a/cart:1", "b/cart:2"); from != "1" || to != "2" {
		t.Errorf("two versions: %q and %q", from, to)
	}
	if from, to := DifferingVersions("a/cart:1", "b/cart:1"); from != "a/cart:1" || to != "b/cart:1" {
		t.Errorf("two registries: %q and %q", from, to)
	}
}

// TestSentence shortens messages to the part that a row needs.
func TestSentence(t *testing.T) {
	r := newApp("registry.example.com/shop/cart:5.2.0")
	for message, want := range map[string]string{
		"Deployment cart: 2 pods available": "2 pods available",
		`Deployment cart: container "cart": exits with code 1; see its log; no progress for 600 s. Earlier pods, if any, keep running. ` +
			"Fix the cause, or change the spec to start the rollout again": "exits with code 1; see its log",
		`Deployment cart: container "log": exits with code 1; see its log`: `container "log": exits with code 1; see its log`,
		`Deployment cart: container "cart": image "registry.example.com/shop/cart:5.2.0" cannot be pulled: rpc error: code = NotFound desc = failed to pull ` +
			`and unpack image "registry.example.com/shop/cart:5.2.0": failed to resolve reference "registry.example.com/shop/cart:5.2.0": ` +
			`registry.example.com/shop/cart:5.2.0: not found; no progress for 20 s`: "cart:5.2.0 cannot be pulled: not found",
		"Deployment other exists": "Deployment other exists",
		"Deployment cart exists and was not created by this resource. Rename or delete one of them": "Deployment cart exists and was not created by this resource",
	} {
		if got := r.shortenMessage(message); got != want {
			t.Errorf("%s\n%s\nwant\n%s", message, got, want)
		}
	}
	office := cloudManager().Resource
	if got := office.shortenMessage(`Deployment office-identity: container "office-identity": exits with code 1; see its log`); got != "office-identity: exits with code 1; see its log" {
		t.Errorf("of a tier: %s", got)
	}
}
