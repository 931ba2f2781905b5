package resource

import (
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// BenchmarkApp is what building costs, which happens once a reconcile.
func BenchmarkApp(b *testing.B) {
	for _, name := range []string{"sample", "all-fields", "many-ports", "long"} {
		b.Run(name, func(b *testing.B) {
			var app appv1.App
			seen := readCase(b, cases(b, "app")[name], &app)
			b.ReportAllocs()
			for b.Loop() {
				w := built(b)(App(&app, seen.observed()))
				if wantService := len(app.Spec.Ports) > 0; (len(w.Objects()) == 2) != wantService {
					b.Fatal("an object is missing")
				}
			}
		})
	}
}

// BenchmarkAppSpecChanged is what comparing a spec with its record costs, which happens as often.
func BenchmarkAppSpecChanged(b *testing.B) {
	for _, name := range []string{"sample", "all-fields", "long"} {
		b.Run(name, func(b *testing.B) {
			var app appv1.App
			readCase(b, cases(b, "app")[name], &app)
			record, _ := recordOf(&app.Spec)
			b.ReportAllocs()
			for b.Loop() {
				if changed, err := appChanged(&app.Spec, record); changed || err != nil {
					b.Fatal(changed, err)
				}
			}
		})
	}
}
