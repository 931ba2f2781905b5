package validation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRollout checks the rules of a rollout of AppDefaults, at the bounds and beyond.
func TestRollout(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                      "",
		`{rollout: {type: NextChange}}`:           "",
		`{rollout: {type: Waves}}`:                "",
		`{rollout: {type: Waves, size: 1}}`:       "",
		`{rollout: {type: Waves, size: 100%}}`:    "",
		`{rollout: {type: Waves, size: 1%}}`:      "",
		`{rollout: {type: Waves, soak: 0s}}`:      "",
		`{rollout: {type: Waves, soak: 168h}}`:    "",
		`{rollout: {type: Waves, soak: 1h30m}}`:   "",
		`{rollout: {size: 1}}`:                    "spec.rollout.size: Forbidden",
		`{rollout: {type: Later}}`:                "spec.rollout.type: Unsupported value",
		`{rollout: {type: Waves, size: 0}}`:       "spec.rollout.size: Invalid value",
		`{rollout: {type: Waves, size: -1}}`:      "spec.rollout.size: Invalid value",
		`{rollout: {type: Waves, size: 0%}}`:      "spec.rollout.size: Invalid value",
		`{rollout: {type: Waves, size: 101%}}`:    "spec.rollout.size: Invalid value",
		`{rollout: {type: Waves, size: 200%}}`:    "spec.rollout.size: Invalid value",
		`{rollout: {type: Waves, size: ten}}`:     "spec.rollout.size: Invalid value",
		`{rollout: {type: Waves, soak: -5m}}`:     "spec.rollout.soak: Invalid value",
		`{rollout: {type: Waves, soak: 169h}}`:    "spec.rollout.soak: Invalid value",
		`{rollout: {type: Waves, soak: 5}}`:       "spec.rollout.soak: Invalid value",
		`{rollout: {type: NextChange, size: 1}}`:  "spec.rollout.size: Forbidden",
		`{rollout: {type: NextChange, soak: 5m}}`: "spec.rollout.soak: Forbidden",
	} {
		var spec appv1.AppDefaultsSpec
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "soak: 5}", `soak: "5"}`)), &spec); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(AppDefaults(&spec, len(text), nil).ToAggregate())
		if (want == "") != (got == "<nil>") || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
}

// TestWaveSize checks how many Apps a wave has: at least one, and a percentage is rounded down.
func TestWaveSize(t *testing.T) {
	for _, c := range []struct {
		size       intstr.IntOrString
		apps, want int
	}{
		{intstr.FromInt32(1), 200, 1}, {intstr.FromInt32(50), 20, 50}, {intstr.FromString("10%"), 200, 20}, {intstr.FromString("10%"), 19, 1},
		{intstr.FromString("1%"), 0, 1}, {intstr.FromString("100%"), 7, 7}, {intstr.FromString("50%"), 7, 3},
	} {
		if got := (&appv1.DefaultsRollout{Size: &c.size}).WaveSize(c.apps); got != c.want {
			t.Errorf("%s of %d is %d, want %d", c.size.String(), c.apps, got, c.want)
		}
	}
	none := &appv1.DefaultsRollout{}
	if none.WaveSize(200) != 20 || none.WaveSoak() != 5*time.Minute || (&appv1.DefaultsRollout{Soak: "0s"}).WaveSoak() != 0 {
		t.Error("the defaults of a rollout have changed")
	}
}
