package validation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestCloudManager has every rule, kept and broken.
func TestCloudManager(t *testing.T) {
	long := strings.Repeat("a", 52)
	for name, c := range map[string]struct {
		front, identity, db string
		want                []string
	}{
		"the smallest":          {"{}", "{}", "{statefulSet: {}}", nil},
		"names":                 {"{name: a}", "{name: b}", "{statefulSet: {name: c}}", nil},
		"the longest names":     {"{name: " + long + "bbbbbbbbbbb}", "{}", "{statefulSet: {name: " + long + "}}", nil},
		"a long database":       {"{}", "{}", "{statefulSet: {name: " + long + "a}}", []string{"FieldValueInvalid spec.db.statefulSet.name"}},
		"front like identity":   {"{name: a}", "{name: a}", "{statefulSet: {}}", []string{"FieldValueInvalid spec.identity.deployment.name", "FieldValueInvalid spec.front.deployment.name"}},
		"identity like db":      {"{}", "{name: a}", "{statefulSet: {name: a}}", []string{"FieldValueInvalid spec.db.statefulSet.name", "FieldValueInvalid spec.identity.deployment.name"}},
		"front like headless":   {"{name: a-headless}", "{}", "{statefulSet: {name: a}}", []string{"FieldValueInvalid spec.db.statefulSet.name", "FieldValueInvalid spec.front.deployment.name"}},
		"front like a default":  {"{name: cm-identity}", "{}", "{statefulSet: {}}", []string{"FieldValueInvalid spec.identity.deployment.name", "FieldValueInvalid spec.front.deployment.name"}},
		"a Service like front":  {"{}", "{service: {name: cm-front}, ports: [{port: 80}]}", "{statefulSet: {}}", []string{"FieldValueInvalid spec.identity.deployment.service.name", "FieldValueInvalid spec.front.deployment.name"}},
		"its own headless":      {"{}", "{}", "{statefulSet: {service: {name: cm-db-headless}}}", []string{"FieldValueInvalid spec.db.statefulSet.service.name"}},
		"a tier's fields":       {"{envs: [{name: '='}]}", "{envs: [{name: '='}]}", "{statefulSet: {envs: [{name: '='}]}}", []string{"FieldValueInvalid spec.db.statefulSet.envs[0].name", "FieldValueInvalid spec.identity.deployment.envs[0].name", "FieldValueInvalid spec.front.deployment.envs[0].name"}},
		"the volume's name":     {"{}", "{}", "{statefulSet: {volumes: [{name: datadir, emptyDir: {}}]}}", []string{"FieldValueInvalid spec.db.statefulSet.volumes[0].name"}},
		"the volume's place":    {"{}", "{}", "{statefulSet: {volumeMounts: [{mountPath: /a/, name: a}], volumes: [{name: a, emptyDir: {}}], storage: {mountPath: /a}}}", []string{"FieldValueInvalid spec.db.statefulSet.volumeMounts[0].mountPath"}},
		"the password stated":   {"{envs: [{name: MARIADB_ROOT_PASSWORD, value: a}]}", "{}", "{statefulSet: {envs: [{name: MYSQL_ROOT_PASSWORD, value: a}]}}", []string{"FieldValueForbidden spec.db.statefulSet.envs[0]"}},
		"no deadline":           {"{}", "{minReadySeconds: 600}", "{statefulSet: {minReadySeconds: 600}}", []string{"FieldValueInvalid spec.identity.deployment.minReadySeconds"}},
		"a password with NUL":   {"{}", "{}", `{statefulSet: {}, rootPass: "a\0b"}`, []string{"FieldValueInvalid spec.db.rootPass"}},
		"a password's Secret":   {"{}", "{}", "{statefulSet: {}, rootPassSecretRef: {name: any}}", nil},
		"the password's Secret": {"{}", "{}", "{statefulSet: {name: a}, rootPassSecretRef: {name: aauth}}", []string{"FieldValueInvalid spec.db.rootPassSecretRef.name"}},
	} {
		t.Run(name, func(t *testing.T) {
			cm := &appv1.CloudManager{}
			spec := "{front: {deployment: " + c.front + "}, identity: {deployment: " + c.identity + "}, db: " + c.db + "}"
			if err := yaml.UnmarshalStrict([]byte("{metadata: {name: cm}, spec: "+spec+"}"), cm); err != nil {
				t.Fatal(err)
			}
			cm.DefaultNames()
			errs := CloudManager(cm)
			var got []string
			for _, err := range slices.Concat(errs.Database, errs.Identity, errs.Front) {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
