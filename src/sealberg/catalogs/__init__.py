"""Catalogs: where the tables are, and who vouches for them.

load              load_catalog: from PyIceberg's configuration to a catalog
guard             other catalogs of PyIceberg, which refuse encrypted tables
base              shared by all catalogs with encrypted tables: a KMS client and a cache of KEKs
new_places        the folder of a new table, which has nothing of anybody else
trusting          TrustingCatalog: the type of a catalog that keeps trust records
metastore         catalogs that keep a pointer to metadata.json: SQL, Hive, Glue
name_swap         exchanges the names of two tables by renames that can be repeated
commit_status     whether a commit whose response was lost was applied
warehouse         where new tables go, as an absolute location
table_parameters  the table parameters that Hive and Glue keep for an encrypted table
sql hive rest     one package per type
glue              the AWS Glue Data Catalog
"""

from sealberg.catalogs.trusting import TrustingCatalog

__all__ = ["TrustingCatalog"]
