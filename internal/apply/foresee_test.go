package apply

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestDryClientWritesNothing calls every method of the client of a dry run: the client refuses each write.
func TestDryClientWritesNothing(t *testing.T) {
	dry := ReadOnly(fake.NewClientBuilder().Build())
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "default", "web"
	reads := "Get List Scheme RESTMapper GroupVersionKindFor IsObjectNamespaced Status SubResource"
	for _, c := range []any{dry, dry.Status(), dry.SubResource("scale")} {
		v := reflect.ValueOf(c)
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			if strings.Contains(reads, name) {
				continue
			}
			m := v.Method(i)
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for n := 1; n < m.Type().NumIn(); n++ {
				in := m.Type().In(n)
				switch {
				case m.Type().IsVariadic() && n == m.Type().NumIn()-1:
					continue
				case reflect.TypeOf(d).Implements(in):
					args = append(args, reflect.ValueOf(d))
				default:
					args = append(args, reflect.Zero(in))
				}
			}
			out := m.Call(args)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, errDryRun) {
				t.Errorf("%T.%s: %v", c, name, err)
			}
		}
	}
}

var _ client.Client = dryClient{}
