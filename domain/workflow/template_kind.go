package workflow

// UsesTrigger reports whether the template has a variable of the trigger's data, which only runs have.
func (t Template) UsesTrigger() bool {
	for i := range t.parts {
		if t.parts[i].triggerPtr != nil {
			return true
		}
	}
	return false
}

// IsFixed reports whether the template has no variables, so that everybody gets the same text.
func (t Template) IsFixed() bool {
	for i := range t.parts {
		if t.parts[i].variable != "" {
			return false
		}
	}
	return true
}
