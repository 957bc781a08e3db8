"""One encrypted file: a key and a location.

byte_sources  anything with bytes at offsets: a path, a buffer, an open file, an object in a bucket
buffer_pool   buffers to use again, because new ones cost page faults
thread_pool   the threads that encrypt and decrypt blocks in parallel
file_writer   FileWriter, what all writers do when they are closed or fail
ags1_reader   Ags1Reader, a seekable stream of the plaintext of an AGS1 file
ags1_writer   Ags1Writer, a stream that writes an AGS1 file
ags1_walk     authenticates every block of an AGS1 file once, in order
reseal        an AGS1 file sealed anew under another key, block by block
removal       deletes one object: the only place that deletes from storage
seal          whole files and buffers in one call
file_io       PyIceberg's FileIO for an encrypted table: opens what carries its key, refuses the rest
key_columns   the key metadata of many files at once
confined_io   PyIceberg's FileIO, confined to the stores that the operator allows
locations     locations: parsed, refused where readers differ, in one spelling, and sets of them
exact_io      PyIceberg's two FileIOs, reaching the object of exactly this name
listing       lists what lies in a folder of any store
store_errors  what the clients of object stores say, as StorageError with the object and what to do
vended_io     a FileIO over credentials that a catalog hands out for a short time
object_versions  older versions of objects, in buckets that keep them
identify      what a file is, by its bytes
parquet       Parquet under its own modular encryption
avro          Avro data files inside AGS1
puffin        Puffin files inside AGS1, and the deletion vectors and sketches in them
"""
