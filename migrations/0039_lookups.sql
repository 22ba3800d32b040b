-- A public path finds whose product it is by the product's ID alone.
CREATE INDEX instalment_product_id ON instalment_product (id);
