-- +goose Up

-- Searching contacts goes by trigrams. The extension comes with PostgreSQL (in Debian's main package, elsewhere in
-- postgresql-contrib) and is a trusted one: whoever may create objects in the database may create it.
create extension if not exists pg_trgm;
