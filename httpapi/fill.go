package httpapi

import (
	"reflect"
	"strings"
)

// filler replaces the nil lists and maps of an answer by empty ones: the interface knows no null there, unless the field
// says nullable:"true", and leaves out what is marked omitempty or omitzero.
type filler func(v reflect.Value)

// fillerOf looks at a type once, so that an answer without lists costs nothing. nil when there is nothing to fill.
func fillerOf(t reflect.Type) filler { return fillerFor(t, map[reflect.Type]bool{}) }

func fillerFor(t reflect.Type, above map[reflect.Type]bool) filler {
	switch t.Kind() {
	case reflect.Pointer:
		inner := fillerFor(t.Elem(), above)
		if inner == nil {
			return nil
		}
		return func(v reflect.Value) {
			if !v.IsNil() {
				inner(v.Elem())
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil // bytes, json.RawMessage among them
		}
		inner := fillerFor(t.Elem(), above)
		return func(v reflect.Value) {
			if v.IsNil() {
				v.Set(reflect.MakeSlice(t, 0, 0))
				return
			}
			if inner == nil {
				return
			}
			for i := range v.Len() {
				inner(v.Index(i))
			}
		}
	case reflect.Map:
		return func(v reflect.Value) { // values of maps cannot be set in place, and no answer needs it
			if v.IsNil() {
				v.Set(reflect.MakeMap(t))
			}
		}
	case reflect.Struct:
		return structFiller(t, above)
	default:
		return nil
	}
}

func structFiller(t reflect.Type, above map[reflect.Type]bool) filler {
	if above[t] {
		return nil // a type within itself; no answer has one with lists
	}
	above[t] = true
	defer delete(above, t)
	type step struct {
		index int
		fill  filler
	}
	var steps []step
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() || field.Tag.Get("nullable") == "true" || strings.Contains(field.Tag.Get("json"), ",omit") {
			continue
		}
		if fill := fillerFor(field.Type, above); fill != nil {
			steps = append(steps, step{i, fill})
		}
	}
	if steps == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, s := range steps {
			s.fill(v.Field(s.index))
		}
	}
}
