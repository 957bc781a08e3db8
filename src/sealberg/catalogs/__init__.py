"""Catalogs: where the tables are, and who vouches for them.

load              load_catalog: from PyIceberg's configuration to a catalog
guard             other catalogs of PyIceberg, which refuse encrypted tables
base              what every catalog with encrypted tables has: a KMS client and a cache of KEKs
trusting          TrustingCatalog: the type of a catalog that keeps trust records
metastore         catalogs that keep a pointer to metadata.json: SQL, Hive, Glue
commit_status     did a commit whose answer was lost apply?
table_parameters  what Hive and Glue keep of an encrypted table
sql hive rest     one package per type
glue              the AWS Glue Data Catalog
"""

from sealberg.catalogs.trusting import TrustingCatalog

__all__ = ["TrustingCatalog"]
