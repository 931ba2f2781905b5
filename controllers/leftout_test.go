package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"huolala.cn/app-operator/internal/children"
)

var errNoRight = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no right"))

var errNoAnswer = errors.New("503")

// listAnswers are the API server's answers to lists.
type listAnswers func(row *children.Type, namespace string) error

func refuseIf(refused bool) error {
	if refused {
		return errNoRight
	}
	return nil
}

// allFeatures are the features of types.
func allFeatures(rows []*children.Type) (all []string) {
	for _, row := range rows {
		all = append(all, row.Features...)
	}
	return all
}

// TestFirstLook starts managers that lack rights: a namespace without any is left out if there is another one, and a type that is refused is watched
// apart. A manager with its rights sends a request for each type and namespace.
func TestFirstLook(t *testing.T) {
	var around []*children.Type
	for i := range children.Types {
		if row := &children.Types[i]; len(row.Features) > 0 && (&watchSet{}).isShared(row) {
			around = append(around, row)
		}
	}
	ingress := []*children.Type{children.TypeOf(&networkingv1.Ingress{})}
	deployment := children.TypeOf(&appsv1.Deployment{})
	of := func(namespaces ...string) listAnswers {
		return func(_ *children.Type, ns string) error { return refuseIf(slices.Contains(namespaces, ns)) }
	}
	moments := 0
	for name, c := range map[string]struct {
		namespaces []string
		disabled   []string
		answers    listAnswers
		leftOut    []string
		refused    []*children.Type
		asked      int
	}{
		"all rights":           {namespaces: []string{"shop", "search"}, answers: of(), asked: 2 * len(around)},
		"all namespaces":       {answers: of(), asked: len(around)},
		"none in all":          {answers: of(""), refused: around, asked: len(around)},
		"none in one":          {namespaces: []string{"shop", "search"}, answers: of("search"), leftOut: []string{"search"}, asked: 2*len(around) + 3},
		"none in each":         {namespaces: []string{"shop", "search"}, answers: of("shop", "search"), refused: around, asked: 2*len(around) + 6},
		"none in the only one": {namespaces: []string{"shop"}, answers: of("shop"), refused: around, asked: len(around)},
		"nothing around the pods": {
			namespaces: []string{"shop", "search"}, disabled: allFeatures(around), answers: of("search"), leftOut: []string{"search"}, asked: 4,
		},
		"no answer": {
			namespaces: []string{"shop", "search"}, asked: 2*len(around) + 1,
			answers: func(_ *children.Type, ns string) error {
				if ns == "search" {
					return errNoAnswer
				}
				return nil
			},
		},
		"one look unanswered": {
			namespaces: []string{"shop", "search"}, leftOut: []string{"search"}, asked: 2*len(around) + 3,
			answers: func(row *children.Type, ns string) error {
				if row == ingress[0] && ns == "search" {
					return errNoAnswer
				}
				return refuseIf(ns == "search")
			},
		},
		"Deployments unanswered": {
			namespaces: []string{"shop", "search"}, refused: around, asked: 2*len(around) + 1,
			answers: func(row *children.Type, ns string) error {
				if row == deployment {
					return errNoAnswer
				}
				return refuseIf(ns == "search")
			},
		},
		"refused for a moment": {
			namespaces: []string{"shop", "search"}, refused: around, asked: 2*len(around) + 2,
			answers: func(row *children.Type, ns string) error {
				if row == deployment {
					moments++
					return refuseIf(moments == 1)
				}
				return refuseIf(ns == "search")
			},
		},
		"one type in one": {
			namespaces: []string{"shop", "search"}, refused: ingress, asked: 2 * len(around),
			answers: func(row *children.Type, ns string) error { return refuseIf(row == ingress[0] && ns == "search") },
		},
		"all but Deployments": {
			namespaces: []string{"shop", "search"}, refused: around, asked: 2*len(around) + 1,
			answers: func(row *children.Type, ns string) error { return refuseIf(row != deployment && ns == "search") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				look := func(_ context.Context, row *children.Type, ns string) error {
					asked++
					return c.answers(row, ns)
				}
				w := newWatchSet(look, &Options{Namespaces: c.namespaces, DisabledFeatures: c.disabled}, logr.Discard())
				if !slices.Equal(w.leftOut.namespaces, c.leftOut) {
					t.Errorf("left out: %q, want %q", w.leftOut.namespaces, c.leftOut)
				}
				for _, row := range around {
					if want := slices.Contains(c.refused, row); w.isApart(row) != want {
						t.Errorf("%T is watched apart: %t, want %t", row.Object, !want, want)
					}
				}
				if asked != c.asked {
					t.Errorf("the API server was asked %d times, want %d", asked, c.asked)
				}
				left := w.leftOut.remove(c.namespaces)
				if len(left) != len(c.namespaces)-len(c.leftOut) {
					t.Errorf("watched are %q", left)
				}
			})
		})
	}
}

// TestSlowFirstLook has no answer to the looks for the types before their time is over: the looks for Deployments have a time of their own.
func TestSlowFirstLook(t *testing.T) {
	deployment := children.TypeOf(&appsv1.Deployment{})
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		look := func(ctx context.Context, row *children.Type, ns string) error {
			if asked++; asked > 2 && row != deployment {
				<-ctx.Done()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return refuseIf(ns == "search")
		}
		w := newWatchSet(look, &Options{Namespaces: []string{"shop", "search"}}, logr.Discard())
		if want := []string{"search"}; !slices.Equal(w.leftOut.namespaces, want) {
			t.Errorf("left out: %q, want %q", w.leftOut.namespaces, want)
		}
	})
}

// TestLeftOutGoesOn has a namespace without rights get and lose them: the manager ends with its context alone, logs each answer that is news, and has
// the watch as broken all the time.
func TestLeftOutGoesOn(t *testing.T) {
	const refused, given, unanswered = "no rights", "has rights", "Cannot find out"
	for name, c := range map[string]struct {
		answers []error
		want    []string
	}{
		"never asked":     {},
		"refused":         {answers: []error{errNoRight, errNoRight}, want: []string{refused, refused}},
		"given":           {answers: []error{errNoRight, nil, nil, nil}, want: []string{refused, given}},
		"given and taken": {answers: []error{nil, errNoRight, nil, nil}, want: []string{given, refused, given}},
		"not answered":    {answers: []error{errNoAnswer, nil, errNoAnswer, nil}, want: []string{unanswered, given, unanswered}},
	} {
		t.Run(name, func(t *testing.T) {
			ended, end := context.WithCancel(t.Context())
			asked := 0
			look := func(context.Context, *children.Type, string) error {
				if !watches.brokenKinds()["Deployment"] {
					t.Error("the watch is not broken")
				}
				if asked++; asked > len(c.answers) {
					end()
					return context.Canceled
				}
				return c.answers[asked-1]
			}
			var logged []string
			log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			if err := (&leftOut{look: look, log: log, pause: time.Millisecond, namespaces: []string{"search"}}).Start(ended); err != nil {
				t.Errorf("the manager ends: %v", err)
			}
			if asked != len(c.answers)+1 || len(logged) != len(c.want) {
				t.Fatalf("asked %d times, logged %q, want %q", asked, logged, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(logged[i], want) || !strings.Contains(logged[i], `"search"`) {
					t.Errorf("logged: %s, want %q", logged[i], want)
				}
			}
		})
	}
	if err := (&leftOut{}).Start(t.Context()); err != nil {
		t.Errorf("a manager with its rights ends: %v", err)
	}
}
