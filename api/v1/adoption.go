package v1

// GentlestAdoption returns the value of AnnotationAdopt by which a resource of a kind adopts objects and replaces the fewest pods.
func GentlestAdoption(kind string) string {
	switch kind {
	case "App", "ModelBox":
		return AdoptWithoutRestart
	}
	return "true"
}
